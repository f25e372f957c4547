# storlab: aim_list
# The devices of Arsenal Image Mounter, as its own program lists them.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Program)
$Ansible.Changed = $false
$found = Get-Command -Name $Program -CommandType Application -ErrorAction SilentlyContinue | Select-Object -First 1
$code = $null
$output = ''
$errors = ''
if ($found) {
    $start = New-Object -TypeName System.Diagnostics.ProcessStartInfo -ArgumentList $found.Path, '-l'
    $start.UseShellExecute = $false
    $start.RedirectStandardOutput = $true
    $start.RedirectStandardError = $true
    $process = [System.Diagnostics.Process]::Start($start)
    $said = $process.StandardOutput.ReadToEndAsync()
    $warned = $process.StandardError.ReadToEndAsync()
    if ($process.WaitForExit(60000)) { $code = $process.ExitCode } else { $process.Kill() }
    $output = $said.Result
    $errors = $warned.Result
}
$Ansible.Result = @{
    found = [bool]$found
    exit_code = $code
    output = $output
    errors = $errors
}
