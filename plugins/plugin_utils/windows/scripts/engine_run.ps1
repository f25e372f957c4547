# storlab: engine_run
# parts: stop_engine, licence, windows_only/account, windows_only/registry
# What the scheduled task runs, beside its plan: starts the program, waits, ends it at its limit, and puts back what was changed for it.
$ErrorActionPreference = 'Stop'
$folder = $PSScriptRoot

function Get-Now { [DateTime]::UtcNow.ToString('yyyy-MM-ddTHH:mm:ss.fffZ', [System.Globalization.CultureInfo]::InvariantCulture) }

# Who reads a file must find all of it.
function Write-Record {
    param([string]$Name, [hashtable]$Values)
    $file = [System.IO.Path]::Combine($folder, $Name)
    [System.IO.File]::WriteAllText("$file.new", (ConvertTo-Json -InputObject $Values))
    Move-Item -LiteralPath "$file.new" -Destination $file -Force
}

# What a process says of itself, or nothing: one that has ended may no longer say when it was started, and that must not cost its exit code.
function Get-Fact {
    param([object]$Process, [string]$Name)
    try { $Process.$Name } catch { $null }
}

$plan = ConvertFrom-Json -InputObject ([System.IO.File]::ReadAllText([System.IO.Path]::Combine($folder, 'plan.json')))
$ended = @{ exit_code = $null; timed_out = $false; started_utc = Get-Now; finished_utc = $null; error = $null; left = @(); late_ms = [int64]0; clock_step_ms = [int64]0 }
$run = @{ process = $null; ticks = [int64]0; end_ticks = [int64]0; linked = $false; licence = $null }
try {
    if ($plan.link) {
        if (Test-Path -LiteralPath $plan.link) { throw "$($plan.link) exists." }
        Write-Record -Name link.json -Values @{ link = $plan.link }
        # What somebody else has made in between is not ours to remove.
        try { $null = New-Item -ItemType HardLink -Path $plan.link -Value $plan.link_target }
        catch { [System.IO.File]::Delete([System.IO.Path]::Combine($folder, 'link.json')); throw }
        $run.linked = $true
    }
    if ($plan.licence_version) {
        $before = Read-Licence
        Write-Record -Name licence.json -Values $before
        $run.licence = $before
        Write-UserValue -Hive $before.hive -Key $licenceKey -Name Version -Value $plan.licence_version
    }
    $output = if ($plan.output) { $plan.output } else { 'stdout.txt' }
    $ended.started_utc = Get-Now
    # Until the program itself can say when it was started.
    $run.ticks = [DateTime]::UtcNow.Ticks
    $run.process = Start-Process -FilePath $plan.program -ArgumentList $plan.arguments -WorkingDirectory $folder -RedirectStandardOutput ([System.IO.Path]::Combine($folder, $output)) -RedirectStandardError ([System.IO.Path]::Combine($folder, 'stderr.txt')) -PassThru
    # On Windows, who has not asked for the handle while the program ran is not told its exit code.
    $null = Get-Fact -Process $run.process -Name Handle
    $begun = Get-Fact -Process $run.process -Name StartTime
    if ($begun) { $run.ticks = $begun.ToUniversalTime().Ticks }
    Write-Record -Name process.json -Values @{ pid = $run.process.Id; start = [string]$run.ticks }
    # This process looks twice a second. When it comes late, the host did not run it, and may not have run the program either.
    $limitMs = [int64]$plan.limit_s * 1000
    $clock = [System.Diagnostics.Stopwatch]::StartNew()
    $utc = [DateTime]::UtcNow
    $ended.timed_out = $true
    for ($leftMs = $limitMs; $ended.timed_out -and $leftMs -gt 0 -and $clock.ElapsedMilliseconds -lt $limitMs; $leftMs -= 500) {
        $waitMs = [int][Math]::Min($leftMs, 500)
        $dueMs = $clock.ElapsedMilliseconds + $waitMs
        $ended.timed_out = -not $run.process.WaitForExit($waitMs)
        $ended.late_ms = [Math]::Max($ended.late_ms, $clock.ElapsedMilliseconds - $dueMs)
    }
    $ended.clock_step_ms = [int64][Math]::Abs(([DateTime]::UtcNow - $utc).TotalMilliseconds - $clock.Elapsed.TotalMilliseconds)
    if (-not $ended.timed_out) {
        # In place of the end that the program does not say: its number cannot have been given to another one yet.
        $run.end_ticks = [DateTime]::UtcNow.Ticks
        $ended.exit_code = Get-Fact -Process $run.process -Name ExitCode
        $gone = Get-Fact -Process $run.process -Name ExitTime
        if ($gone) { $run.end_ticks = $gone.ToUniversalTime().Ticks }
        if ($null -eq $ended.exit_code) { $ended.error = "$($plan.program) has ended and does not say its exit code." }
    }
    $ended.finished_utc = Get-Now
}
catch {
    $ended.error = [string]$_
}
finally {
    # Each is tried, whatever became of the others.
    $ending = { if ($run.process) { $ended.left = @(Stop-Engine -Id $run.process.Id -Ticks $run.ticks -EndTicks $run.end_ticks -Program $plan.program -Leaves $plan.leaves -Mark $plan.mark) } }
    $unlinking = {
        if ($run.linked) {
            [System.IO.File]::Delete($plan.link)
            [System.IO.File]::Delete([System.IO.Path]::Combine($folder, 'link.json'))
        }
    }
    $giving = {
        if ($run.licence) {
            Restore-Licence -Before $run.licence
            [System.IO.File]::Delete([System.IO.Path]::Combine($folder, 'licence.json'))
        }
    }
    foreach ($step in $ending, $unlinking, $giving) {
        try { & $step } catch { $ended.error = "$($ended.error) $_".Trim() }
    }
    if (-not $ended.finished_utc) { $ended.finished_utc = Get-Now }
    Write-Record -Name ended.json -Values $ended
}
