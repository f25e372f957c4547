# storlab: engine_list
# The runs on this host, of one testbed or of all. Reads only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Root, [string]$TestbedId)
$Ansible.Changed = $false

$testbeds = @()
if (Test-Path -LiteralPath $Root) {
    $testbeds = @(Get-ChildItem -LiteralPath $Root -Directory -Force | Where-Object -FilterScript { -not $TestbedId -or $_.Name -eq $TestbedId })
}
$runs = @(foreach ($testbed in $testbeds) {
    foreach ($folder in @(Get-ChildItem -LiteralPath $testbed.FullName -Directory -Force)) {
        # Other folders may lie here, too; a run has a plan.
        $plan = Get-Item -LiteralPath ([System.IO.Path]::Combine($folder.FullName, 'plan.json')) -ErrorAction SilentlyContinue
        if ($plan) {
            $name = "storlab $($testbed.Name) $($folder.Name)"
            $task = Get-ScheduledTask -TaskName $name -TaskPath '\' -ErrorAction SilentlyContinue
            $active = $task -and @('Running', 'Queued') -contains [string]$task.State
            $state = 'lost'
            if ($active -or ([DateTime]::UtcNow - $plan.LastWriteTimeUtc).TotalSeconds -lt 20) { $state = 'running' }
            if (Test-Path -LiteralPath ([System.IO.Path]::Combine($folder.FullName, 'ended.json'))) { $state = 'ended' }
            @{ testbed_id = $testbed.Name; folder = $folder.FullName; name = $folder.Name; state = $state; task = $name }
        }
    }
})
$Ansible.Result = @{ runs = $runs }
