# storlab: engine_run
# What the scheduled task runs, beside its plan: starts the program, waits, ends it at its limit, and puts back what was changed for it.
$ErrorActionPreference = 'Stop'

function Get-Now { [DateTime]::UtcNow.ToString('yyyy-MM-ddTHH:mm:ss.fffZ', [System.Globalization.CultureInfo]::InvariantCulture) }

# Who reads a file must find all of it.
function Write-Record {
    param([string]$Name, [hashtable]$Values)
    [System.IO.File]::WriteAllText("$PSScriptRoot\$Name.new", (ConvertTo-Json -InputObject $Values))
    Move-Item -LiteralPath "$PSScriptRoot\$Name.new" -Destination "$PSScriptRoot\$Name" -Force
}

# A child tells who started it also when that one has ended. IOMeter starts Dynamo through a shell that ends at once, so what lies beside the
# program, was started after it, and has nobody left who started it, is ended, too.
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

$plan = ConvertFrom-Json -InputObject ([System.IO.File]::ReadAllText("$PSScriptRoot\plan.json"))
$ended = @{ exit_code = $null; timed_out = $false; started_utc = Get-Now; finished_utc = $null; error = $null }
$process = $null
$ticks = 0
$settings = 'Software\iometer.org\Iometer\Settings'
try {
    if ($plan.link) {
        if (Test-Path -LiteralPath $plan.link) { throw "$($plan.link) exists." }
        Write-Record -Name link.json -Values @{ link = $plan.link }
        $null = New-Item -ItemType HardLink -Path $plan.link -Value $plan.link_target
    }
    if ($plan.licence_version) {
        # By the number of the account, so that another one can put it back.
        $hive = [System.Security.Principal.WindowsIdentity]::GetCurrent().User.Value
        $above = @('Software\iometer.org', 'Software\iometer.org\Iometer', $settings | Where-Object -FilterScript { -not (Test-Path -LiteralPath "Registry::HKEY_USERS\$hive\$_") })
        $before = (Get-ItemProperty -LiteralPath "Registry::HKEY_USERS\$hive\$settings" -ErrorAction SilentlyContinue).Version
        Write-Record -Name licence.json -Values @{ hive = $hive; version = $before; made = "$($above | Select-Object -First 1)" }
        [Microsoft.Win32.Registry]::Users.CreateSubKey("$hive\$settings").SetValue('Version', $plan.licence_version)
    }
    $output = if ($plan.output) { $plan.output } else { 'stdout.txt' }
    $ended.started_utc = Get-Now
    # Until the program itself can say when it was started.
    $ticks = [DateTime]::UtcNow.Ticks
    $process = Start-Process -FilePath $plan.program -ArgumentList $plan.arguments -WorkingDirectory $PSScriptRoot -RedirectStandardOutput "$PSScriptRoot\$output" -RedirectStandardError "$PSScriptRoot\stderr.txt" -PassThru
    # Who has not asked for the handle while the program ran is not told its exit code. PowerShell passes over the error of asking too late.
    if (-not $process.Handle) { throw "$($plan.program) ended at once." }
    $ticks = $process.StartTime.ToUniversalTime().Ticks
    Write-Record -Name process.json -Values @{ pid = $process.Id; start = "$ticks" }
    $limitMs = [int][Math]::Min([int64]$plan.limit_s * 1000, [int]::MaxValue)
    $ended.timed_out = -not $process.WaitForExit($limitMs)
    if (-not $ended.timed_out) { $ended.exit_code = $process.ExitCode }
    $ended.finished_utc = Get-Now
}
catch {
    $ended.error = "$_"
}
finally {
    try {
        if ($process) { Stop-Engine -Id $process.Id -Ticks $ticks -Program $plan.program }
        if (Test-Path -LiteralPath "$PSScriptRoot\link.json") {
            [System.IO.File]::Delete($plan.link)
            [System.IO.File]::Delete("$PSScriptRoot\link.json")
        }
        if (Test-Path -LiteralPath "$PSScriptRoot\licence.json") {
            $was = ConvertFrom-Json -InputObject ([System.IO.File]::ReadAllText("$PSScriptRoot\licence.json"))
            $key = [Microsoft.Win32.Registry]::Users.OpenSubKey("$($was.hive)\$settings", $true)
            if ($key -and $was.version) { $key.SetValue('Version', $was.version) }
            if ($key -and -not $was.version) { $key.DeleteValue('Version', $false) }
            if ($was.made) { [Microsoft.Win32.Registry]::Users.DeleteSubKeyTree("$($was.hive)\$($was.made)", $false) }
            [System.IO.File]::Delete("$PSScriptRoot\licence.json")
        }
    }
    catch {
        $ended.error = "$($ended.error) $_".Trim()
    }
    finally {
        if (-not $ended.finished_utc) { $ended.finished_utc = Get-Now }
        Write-Record -Name ended.json -Values $ended
    }
}
