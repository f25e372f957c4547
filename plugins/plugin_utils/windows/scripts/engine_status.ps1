# storlab: engine_status
# Where a run stands, and the files that it has; ended is the text of ended.json. Reads only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Folder, [string]$TaskName)
$Ansible.Changed = $false

$state = 'missing'
$ended = $null
$files = @()
$result = $null
if (Test-Path -LiteralPath $Folder) {
    # In the order in which a run lives: one that starts or ends between two looks is not taken for lost.
    $about = Get-ScheduledTaskInfo -TaskName $TaskName -TaskPath '\' -ErrorAction SilentlyContinue
    $ran = $false
    if ($about) {
        $result = $about.LastTaskResult
        # Of a task that never ran, a day in 1999 is told.
        $ran = $about.LastRunTime -and $about.LastRunTime.Year -gt 2000
    }
    $task = Get-ScheduledTask -TaskName $TaskName -TaskPath '\' -ErrorAction SilentlyContinue
    $runs = $task -and @('Running', 'Queued') -contains [string]$task.State
    # Not when it was made: Windows gives a name that comes back soon its former time of creation.
    $plan = Get-Item -LiteralPath ([System.IO.Path]::Combine($Folder, 'plan.json')) -ErrorAction SilentlyContinue
    $young = $plan -and ([DateTime]::UtcNow - $plan.LastWriteTimeUtc).TotalSeconds -lt 20
    $record = [System.IO.Path]::Combine($Folder, 'ended.json')
    if (Test-Path -LiteralPath $record) {
        $state = 'ended'
        $ended = [System.IO.File]::ReadAllText($record)
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
