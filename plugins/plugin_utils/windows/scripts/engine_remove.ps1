# storlab: engine_remove
# parts: stop_engine, licence, empty_folders, windows_only/account, windows_only/registry
# Ends a run, puts back what it changed, and removes what it left. Nothing of it may be there. Returns {left: who else runs beside its program}.
param([string]$Folder, [string]$TaskName)
$left = @()
if (Get-ScheduledTask -TaskName $TaskName -TaskPath '\' -ErrorAction SilentlyContinue) {
    Stop-ScheduledTask -TaskName $TaskName -TaskPath '\'
    for ($turn = 0; $turn -lt 60 -and [string](Get-ScheduledTask -TaskName $TaskName -TaskPath '\').State -eq 'Running'; $turn++) { Start-Sleep -Milliseconds 250 }
}
$records = @{}
foreach ($name in 'plan', 'process', 'ended', 'link', 'licence') {
    $file = [System.IO.Path]::Combine($Folder, "$name.json")
    if (Test-Path -LiteralPath $file) { $records[$name] = ConvertFrom-Json -InputObject ([System.IO.File]::ReadAllText($file)) }
}
if ($records['plan']) {
    $plan = $records['plan']
    # A run that has started nothing, or has ended, has nobody left to end.
    if ($records['process'] -and -not $records['ended']) {
        $left = @(Stop-Engine -Id $records['process'].pid -Ticks $records['process'].start -EndTicks 0 -Program $plan.program -Leaves $plan.leaves -Mark $plan.mark)
    }
    if ($records['link']) { [System.IO.File]::Delete($plan.link) }
    if ($records['licence']) {
        $hive = $records['licence'].hive
        if (-not (Test-UserHive -Hive $hive)) { throw "The licence key of IOMeter is put back only while the account $hive is logged on." }
        Restore-Licence -Before $records['licence']
    }
}
if (Get-ScheduledTask -TaskName $TaskName -TaskPath '\' -ErrorAction SilentlyContinue) { Unregister-ScheduledTask -TaskName $TaskName -TaskPath '\' -Confirm:$false }
# What has just ended may hold a file for a moment.
for ($turn = 0; $turn -lt 20 -and (Test-Path -LiteralPath $Folder); $turn++) {
    Remove-Item -LiteralPath $Folder -Recurse -Force -ErrorAction SilentlyContinue
    if (Test-Path -LiteralPath $Folder) { Start-Sleep -Milliseconds 250 }
}
if (Test-Path -LiteralPath $Folder) { Remove-Item -LiteralPath $Folder -Recurse -Force }
Remove-EmptyAbove -Folder $Folder
$Ansible.Result = @{ left = $left }
