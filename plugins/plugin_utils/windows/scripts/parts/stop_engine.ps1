# part: stop_engine
# Whom a run ends: its program, what that has started, and an orphan that the plan describes. Returns who else began beside the program meanwhile
# and has nobody left who started it, as 'name (number)'; those are somebody else's, and live on.
# A child keeps the number of its parent when that one has ended, and numbers are used again. So whoever has the program's number must also have been
# started when the program was, and a child is younger than its parent. Of a program that has ended the children are those begun before its end.
# IOMeter starts Dynamo through a shell that ends at once. That orphan is known by its name and by the mark in its command line.
function Stop-Engine {
    param([int]$Id, [int64]$Ticks, [int64]$EndTicks, [string]$Program, [string]$Leaves, [string]$Mark)
    $start = New-Object -TypeName DateTime -ArgumentList $Ticks, 'Utc'
    $beside = [System.IO.Path]::GetDirectoryName($Program)
    $seen = @()
    $own = @()
    $left = @()
    foreach ($row in @(Get-CimInstance -ClassName Win32_Process | Where-Object -FilterScript { $_.CreationDate } | Sort-Object -Property CreationDate)) {
        $begun = $row.CreationDate.ToUniversalTime()
        $after = ($begun - $start).TotalMilliseconds
        if ($after -gt -1) {
            $orphan = $seen -notcontains $row.ParentProcessId -and $row.ExecutablePath -and [System.IO.Path]::GetDirectoryName($row.ExecutablePath) -eq $beside
            $first = $row.ProcessId -eq $Id -and $after -lt 1
            $child = $own -contains $row.ParentProcessId -or ($row.ParentProcessId -eq $Id -and $begun.Ticks -lt $EndTicks)
            $known = $orphan -and $Leaves -and $row.Name -eq $Leaves -and " $($row.CommandLine) ".Contains(" $Mark ")
            if ($first -or $child -or $known) { $own += $row.ProcessId }
            elseif ($orphan) { $left += "$($row.Name) ($($row.ProcessId))" }
        }
        $seen += $row.ProcessId
    }
    if ($own) {
        Stop-Process -Id $own -Force -ErrorAction SilentlyContinue
        Wait-Process -Id $own -Timeout 30 -ErrorAction SilentlyContinue
    }
    $left
}
