# storlab: engine_start
# The task outlives the shell that starts it. It runs with all rights, so only administrators may change what it runs.
param([string]$Folder, [string]$TaskName, [string[]]$Names, [string[]]$Contents, [string]$Runner, [string]$Program, [string]$Arguments, [string]$Output, [int]$LimitS, [string]$Session, [string]$Link, [string]$LinkTarget, [string]$LicenceVersion)
if ($Folder -match '[^A-Za-z0-9_.:\\-]') { throw "The folder $Folder has characters that not every engine takes." }
if (Test-Path -LiteralPath $Folder) { throw "The folder $Folder exists." }
if (Get-ScheduledTask -TaskName $TaskName -TaskPath '\' -ErrorAction SilentlyContinue) { throw "The task $TaskName exists." }

$administrators = New-Object -TypeName System.Security.Principal.SecurityIdentifier -ArgumentList 'S-1-5-32-544'
$system = New-Object -TypeName System.Security.Principal.SecurityIdentifier -ArgumentList 'S-1-5-18'
$security = New-Object -TypeName System.Security.AccessControl.DirectorySecurity
$security.SetOwner($administrators)
$security.SetAccessRuleProtection($true, $false)
foreach ($who in $administrators, $system) {
    $rule = New-Object -TypeName System.Security.AccessControl.FileSystemAccessRule -ArgumentList $who, 'FullControl', 'ContainerInherit, ObjectInherit', 'None', 'Allow'
    $security.AddAccessRule($rule)
}
# Who may rename or delete a folder above could put one of his own in its place.
$replacing = [System.Security.AccessControl.FileSystemRights]'Delete, DeleteSubdirectoriesAndFiles, ChangePermissions, TakeOwnership'
$trusted = @($administrators.Value, $system.Value)
$place = [System.IO.Path]::GetPathRoot($Folder)
foreach ($part in $Folder.Substring($place.Length).Split('\')) {
    $place = [System.IO.Path]::Combine($place, $part)
    if (-not (Test-Path -LiteralPath $place)) { $null = [System.IO.Directory]::CreateDirectory($place, $security) }
    # Also those that were made here: somebody may have been faster.
    if ((Get-Item -LiteralPath $place -Force).Attributes -band [System.IO.FileAttributes]::ReparsePoint) { throw "The folder $place leads elsewhere. Remove it." }
    $acl = Get-Acl -LiteralPath $place
    if ($trusted -notcontains $acl.GetOwner([System.Security.Principal.SecurityIdentifier]).Value) { throw "The folder $place does not belong to the administrators. Remove it." }
    foreach ($rule in $acl.GetAccessRules($true, $true, [System.Security.Principal.SecurityIdentifier])) {
        $here = "$($rule.AccessControlType)" -eq 'Allow' -and -not ($rule.PropagationFlags -band [System.Security.AccessControl.PropagationFlags]::InheritOnly)
        if ($here -and $trusted -notcontains $rule.IdentityReference.Value -and ($rule.FileSystemRights -band $replacing)) {
            throw "The folder $place may be replaced by others than administrators. Take away their rights, or remove it."
        }
    }
}
if (-not (Get-Acl -LiteralPath $Folder).AreAccessRulesProtected) { throw "The folder $Folder was made by somebody else. Remove it." }

$plan = @{ program = $Program; arguments = $Arguments; output = $Output; limit_s = $LimitS; link = $Link; link_target = $LinkTarget; licence_version = $LicenceVersion }
[System.IO.File]::WriteAllText("$Folder\plan.json", (ConvertTo-Json -InputObject $plan))
[System.IO.File]::WriteAllBytes("$Folder\runner.ps1", [System.Convert]::FromBase64String($Runner))
for ($number = 0; $number -lt $Names.Count; $number++) {
    [System.IO.File]::WriteAllBytes("$Folder\$($Names[$number])", [System.Convert]::FromBase64String($Contents[$number]))
}

$shell = "$env:SystemRoot\System32\WindowsPowerShell\v1.0\powershell.exe"
$action = New-ScheduledTaskAction -Execute $shell -Argument "-NoProfile -NonInteractive -ExecutionPolicy Bypass -File $Folder\runner.ps1" -WorkingDirectory $Folder
$principal = New-ScheduledTaskPrincipal -UserId SYSTEM -LogonType ServiceAccount -RunLevel Highest
if ($Session -eq 'interactive') {
    $principal = New-ScheduledTaskPrincipal -UserId ([System.Security.Principal.WindowsIdentity]::GetCurrent().Name) -LogonType Interactive -RunLevel Highest
}
# Left alone, a task runs below normal priority and with little of the disk, which no figure would survive.
$settings = New-ScheduledTaskSettingsSet -Priority 4 -ExecutionTimeLimit (New-TimeSpan -Seconds ($LimitS + 300)) -AllowStartIfOnBatteries -DontStopIfGoingOnBatteries -MultipleInstances IgnoreNew
$null = Register-ScheduledTask -TaskName $TaskName -TaskPath '\' -Action $action -Principal $principal -Settings $settings
Start-ScheduledTask -TaskName $TaskName -TaskPath '\'
