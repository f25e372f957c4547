# storlab: engine_remove
# Ends a run, puts back what it changed, and removes what it left. Nothing of it may be there.
param([string]$Folder, [string]$TaskName)

# As in engine_run.
function Stop-Engine {
    param([int]$Id, [int64]$Ticks, [string]$Program)
    $since = New-Object -TypeName DateTime -ArgumentList $Ticks, 'Utc'
    $beside = [System.IO.Path]::GetDirectoryName($Program) + '\'
    $seen = @()
    $own = @()
    foreach ($row in @(Get-CimInstance -ClassName Win32_Process | Where-Object -FilterScript { $_.CreationDate } | Sort-Object -Property CreationDate)) {
        $after = ($row.CreationDate.ToUniversalTime() - $since).TotalMilliseconds
        $orphan = $seen -notcontains $row.ParentProcessId -and "$($row.ExecutablePath)".StartsWith($beside, [System.StringComparison]::OrdinalIgnoreCase)
        $first = $row.ProcessId -eq $Id -and $after -lt 1
        if ($after -gt -1 -and ($first -or $orphan -or $own -contains $row.ParentProcessId)) { $own += $row.ProcessId }
        $seen += $row.ProcessId
    }
    if ($own) {
        Stop-Process -Id $own -Force -ErrorAction SilentlyContinue
        Wait-Process -Id $own -Timeout 30 -ErrorAction SilentlyContinue
    }
}

if (Get-ScheduledTask -TaskName $TaskName -TaskPath '\' -ErrorAction SilentlyContinue) {
    Stop-ScheduledTask -TaskName $TaskName -TaskPath '\'
    for ($turn = 0; $turn -lt 60 -and "$((Get-ScheduledTask -TaskName $TaskName -TaskPath '\').State)" -eq 'Running'; $turn++) { Start-Sleep -Milliseconds 250 }
}
if (Test-Path -LiteralPath "$Folder\plan.json") {
    $plan = ConvertFrom-Json -InputObject ([System.IO.File]::ReadAllText("$Folder\plan.json"))
    $id = 0
    $ticks = (Get-Item -LiteralPath "$Folder\plan.json").LastWriteTimeUtc.Ticks
    if (Test-Path -LiteralPath "$Folder\process.json") {
        $process = ConvertFrom-Json -InputObject ([System.IO.File]::ReadAllText("$Folder\process.json"))
        $id = $process.pid
        $ticks = [int64]$process.start
    }
    if (-not (Test-Path -LiteralPath "$Folder\ended.json")) { Stop-Engine -Id $id -Ticks $ticks -Program $plan.program }
    if (Test-Path -LiteralPath "$Folder\link.json") { [System.IO.File]::Delete($plan.link) }
    if (Test-Path -LiteralPath "$Folder\licence.json") {
        $settings = 'Software\iometer.org\Iometer\Settings'
        $was = ConvertFrom-Json -InputObject ([System.IO.File]::ReadAllText("$Folder\licence.json"))
        if (-not [Microsoft.Win32.Registry]::Users.OpenSubKey($was.hive)) { throw "The licence key of IOMeter is put back only while the account $($was.hive) is logged on." }
        $key = [Microsoft.Win32.Registry]::Users.OpenSubKey("$($was.hive)\$settings", $true)
        if ($key -and $was.version) { $key.SetValue('Version', $was.version) }
        if ($key -and -not $was.version) { $key.DeleteValue('Version', $false) }
        if ($was.made) { [Microsoft.Win32.Registry]::Users.DeleteSubKeyTree("$($was.hive)\$($was.made)", $false) }
    }
}
if (Get-ScheduledTask -TaskName $TaskName -TaskPath '\' -ErrorAction SilentlyContinue) { Unregister-ScheduledTask -TaskName $TaskName -TaskPath '\' -Confirm:$false }
# What has just ended may hold a file for a moment.
for ($turn = 0; $turn -lt 20 -and (Test-Path -LiteralPath $Folder); $turn++) {
    Remove-Item -LiteralPath $Folder -Recurse -Force -ErrorAction SilentlyContinue
    Start-Sleep -Milliseconds 250
}
if (Test-Path -LiteralPath $Folder) { Remove-Item -LiteralPath $Folder -Recurse -Force }
$place = [System.IO.Path]::GetDirectoryName($Folder)
while ($place -ne [System.IO.Path]::GetPathRoot($Folder) -and (Test-Path -LiteralPath $place) -and -not @(Get-ChildItem -LiteralPath $place -Force)) {
    [System.IO.Directory]::Delete($place)
    $place = [System.IO.Path]::GetDirectoryName($place)
}
