# part: program
# Runs a program of Arsenal Image Mounter to its end, or to the limit, at which it is ended: {exit_code: null when it was, output, errors}.
function Invoke-Program {
    param([string]$Path, [string]$Arguments, [int]$LimitMs)
    $start = New-Object -TypeName System.Diagnostics.ProcessStartInfo -ArgumentList $Path, $Arguments
    $start.UseShellExecute = $false
    $start.RedirectStandardOutput = $true
    $start.RedirectStandardError = $true
    try { $process = [System.Diagnostics.Process]::Start($start) }
    catch { throw "$Path is missing or cannot be started: name the program of Arsenal Image Mounter in ramdisk_aim_program." }
    # Both are read while it runs: a full pipe would stop it.
    $output = $process.StandardOutput.ReadToEndAsync()
    $errors = $process.StandardError.ReadToEndAsync()
    $code = $null
    if ($process.WaitForExit($LimitMs)) { $code = $process.ExitCode } else { $process.Kill() }
    @{ exit_code = $code; output = $output.Result; errors = $errors.Result }
}
