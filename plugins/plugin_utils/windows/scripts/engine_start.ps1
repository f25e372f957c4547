# storlab: engine_start
# parts: private_folder, windows_only/edition, windows_only/folder_rights, windows_only/account
# The task outlives the shell that starts it. It runs with all rights, so only administrators may change what it runs.
param([string]$Folder, [string]$TaskName, [string[]]$Names, [string[]]$Contents, [string]$Runner, [string]$Program, [string]$Arguments, [string]$Output, [int]$LimitS, [string]$Session, [string]$Link, [string]$LinkTarget, [string]$LicenceVersion, [string]$Leaves, [string]$Mark)
Assert-WindowsPowerShell
if ($Folder.Replace([System.IO.Path]::DirectorySeparatorChar, [char]'\') -match '[^A-Za-z0-9_.:\\-]') { throw "The folder $Folder has characters that not every engine takes." }
if (Test-Path -LiteralPath $Folder) { throw "The folder $Folder exists." }
if (Get-ScheduledTask -TaskName $TaskName -TaskPath '\' -ErrorAction SilentlyContinue) { throw "The task $TaskName exists." }

New-PrivateFolder -Folder $Folder
$plan = @{ program = $Program; arguments = $Arguments; output = $Output; limit_s = $LimitS; link = $Link; link_target = $LinkTarget; licence_version = $LicenceVersion; leaves = $Leaves; mark = $Mark }
[System.IO.File]::WriteAllText([System.IO.Path]::Combine($Folder, 'plan.json'), (ConvertTo-Json -InputObject $plan))
$file = [System.IO.Path]::Combine($Folder, 'runner.ps1')
[System.IO.File]::WriteAllBytes($file, [System.Convert]::FromBase64String($Runner))
for ($number = 0; $number -lt $Names.Count; $number++) {
    [System.IO.File]::WriteAllBytes([System.IO.Path]::Combine($Folder, $Names[$number]), [System.Convert]::FromBase64String($Contents[$number]))
}

$shell = [System.IO.Path]::Combine($env:SystemRoot, 'System32', 'WindowsPowerShell', 'v1.0', 'powershell.exe')
$action = New-ScheduledTaskAction -Execute $shell -Argument "-NoProfile -NonInteractive -ExecutionPolicy Bypass -File $file" -WorkingDirectory $Folder
if ($Session -eq 'interactive') {
    $principal = New-ScheduledTaskPrincipal -UserId (Get-AccountName) -LogonType Interactive -RunLevel Highest
}
else {
    $principal = New-ScheduledTaskPrincipal -UserId SYSTEM -LogonType ServiceAccount -RunLevel Highest
}
# Left alone, a task runs below normal priority and with little of the disk, which no figure would survive.
$settings = New-ScheduledTaskSettingsSet -Priority 4 -ExecutionTimeLimit (New-TimeSpan -Seconds ($LimitS + 300)) -AllowStartIfOnBatteries -DontStopIfGoingOnBatteries -MultipleInstances IgnoreNew
$null = Register-ScheduledTask -TaskName $TaskName -TaskPath '\' -Action $action -Principal $principal -Settings $settings
Start-ScheduledTask -TaskName $TaskName -TaskPath '\'
