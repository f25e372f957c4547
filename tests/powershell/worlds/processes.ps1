# A host with a table of processes ($global:StandIn.Processes), a program that is started, tasks, and the registry of one account.
# The program began at 12:00:00; times of processes are seconds after that.
$global:StandIn.Begun = New-Object -TypeName DateTime -ArgumentList 2026, 11, 22, 12, 0, 0, ([System.DateTimeKind]::Utc)
$global:StandIn.Processes = @()
$global:StandIn.Tasks = @{}
$global:StandIn.Registry = @{ 'S-1-5-21-7-8-9-500' = @{}; 'S-1-5-21-7-8-9-500\Software' = @{} }

# A row of the table. Without a time it is one of the system's, of which Windows tells none.
function global:Add-Row {
    param([int]$Id, [int]$Parent, $After, [string]$Path, [string]$Line)
    $created = $null
    if ($null -ne $After) { $created = $global:StandIn.Begun.AddTicks([long]([double]$After * 10000000)) }
    $executable = $null
    if ($Path) { $executable = $Path }
    $global:StandIn.Processes += New-Thing 'Win32_Process' @{
        ProcessId = [uint32]$Id; ParentProcessId = [uint32]$Parent; CreationDate = $created; ExecutablePath = $executable; CommandLine = $Line; Name = [System.IO.Path]::GetFileName($Path)
    }
}

# What Start-Process gives: begun at 12:00:00, and ended after $Ends seconds, or not within its limit.
function global:Set-Program {
    param([int]$Id, $Ends, [int]$ExitCode, $Handle = [IntPtr]77)
    $program = New-Thing 'System.Diagnostics.Process' @{
        Id = $Id; Handle = $Handle; StartTime = $global:StandIn.Begun.ToLocalTime(); ExitCode = $ExitCode
        ExitTime = $global:StandIn.Begun.AddSeconds([double]$Ends).ToLocalTime(); Ended = $null -ne $Ends
        # At which look it has ended, and how long a look takes.
        Looks = 1; LookMs = 0
    }
    Add-Member -InputObject $program -MemberType ScriptMethod -Name WaitForExit -Value {
        param($Milliseconds)
        Add-Call -Name 'WaitForExit' -Bound @{ Milliseconds = $Milliseconds }
        if ($this.LookMs) { [System.Threading.Thread]::Sleep($this.LookMs) }
        $this.Looks -= 1
        $this.Ended -and $this.Looks -le 0
    }
    $global:StandIn.Program = $program
}

$global:StandIn.Answers = @{
    'Get-CimInstance' = { $global:StandIn.Processes }
    'Start-Process' = { $global:StandIn.Program }
    'Get-AccountNumber' = { 'S-1-5-21-7-8-9-500' }
    'Get-ScheduledTask' = {
        param($Bound)
        $name = [string]$Bound.TaskName
        if ($global:StandIn.Tasks.ContainsKey($name)) { New-Thing 'MSFT_ScheduledTask' @{ TaskName = $name; State = $global:StandIn.Tasks[$name] } }
        else { Deny-Call -Message "No MSFT_ScheduledTask objects found with property 'TaskName' equal to '$name'." -Category ObjectNotFound }
    }
    'Stop-ScheduledTask' = { param($Bound) $global:StandIn.Tasks[[string]$Bound.TaskName] = 'Ready' }
    'Unregister-ScheduledTask' = { param($Bound) $global:StandIn.Tasks.Remove([string]$Bound.TaskName) }
}
