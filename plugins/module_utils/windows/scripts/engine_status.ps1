# storlab: engine_status
# Reads only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Folder, [string]$TaskName)
$Ansible.Changed = $false

$state = 'missing'
$ended = $null
$files = @()
$result = $null
if (Test-Path -LiteralPath $Folder) {
    # In the order in which a run lives: one that starts or ends between two looks is not taken for lost.
    $told = Get-ScheduledTaskInfo -TaskName $TaskName -TaskPath '\' -ErrorAction SilentlyContinue
    $result = $told.LastTaskResult
    # Of a task that never ran, a day in 1999 is told.
    $ran = $told.LastRunTime -and $told.LastRunTime.Year -gt 2000
    $task = Get-ScheduledTask -TaskName $TaskName -TaskPath '\' -ErrorAction SilentlyContinue
    $runs = @('Running', 'Queued') -contains "$($task.State)"
    # Not when it was made: Windows gives a name that comes back soon its former time of creation.
    $plan = Get-Item -LiteralPath "$Folder\plan.json" -ErrorAction SilentlyContinue
    $young = $plan -and ([DateTime]::UtcNow - $plan.LastWriteTimeUtc).TotalSeconds -lt 20
    if (Test-Path -LiteralPath "$Folder\ended.json") {
        $state = 'ended'
        $ended = ConvertFrom-Json -InputObject ([System.IO.File]::ReadAllText("$Folder\ended.json"))
    }
    elseif ($runs -or ($young -and -not $ran)) {
        $state = 'running'
    }
    else {
        $state = 'lost'
    }
    $files = @(Get-ChildItem -LiteralPath $Folder -File -Force | ForEach-Object -Process { @{ name = $_.Name; size_bytes = $_.Length } })
}
$Ansible.Result = @{ state = $state; ended = $ended; files = $files; task_result = $result }
