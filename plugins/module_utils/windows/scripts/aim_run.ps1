# storlab: aim_run
# Runs the program of Arsenal Image Mounter. It waits without an end for a disk that does not appear, so it is ended after a while.
param([string]$Program, [string]$Arguments)
$start = New-Object -TypeName System.Diagnostics.ProcessStartInfo -ArgumentList $Program, $Arguments
$start.UseShellExecute = $false
$start.RedirectStandardOutput = $true
$start.RedirectStandardError = $true
$process = [System.Diagnostics.Process]::Start($start)
$said = $process.StandardOutput.ReadToEndAsync()
$warned = $process.StandardError.ReadToEndAsync()
$code = $null
if ($process.WaitForExit(300000)) { $code = $process.ExitCode } else { $process.Kill() }
$Ansible.Result = @{
    exit_code = $code
    output = $said.Result
    errors = $warned.Result
}
