# A host that measures, and the tasks of its runs: which are there, how they stand ($tasks) and when they ran last ($ran).
$tasks = @{}
$ran = @{}
$global:StandIn.Tasks = $tasks
$global:StandIn.Ran = $ran
$global:StandIn.Answers = @{
    'Get-CimInstance' = {
        param($Bound)
        switch ($Bound.ClassName) {
            'Win32_OperatingSystem' { New-Thing 'Win32_OperatingSystem' @{ Caption = 'Windows Server 2022 Standard'; Version = '10.0.20348'; BuildNumber = '20348' } }
            'Win32_ComputerSystem' {
                New-Thing 'Win32_ComputerSystem' @{
                    UserName = 'BOX\operator'; NumberOfLogicalProcessors = [uint32]48; NumberOfProcessors = [uint32]2; TotalPhysicalMemory = [uint64]274877906944
                    HypervisorPresent = $true; Manufacturer = 'Example Corp. '; Model = 'Model 7 '
                }
            }
            'Win32_Processor' {
                New-Thing 'Win32_Processor' @{ Name = ' Example CPU @ 2.10GHz  ' }
                New-Thing 'Win32_Processor' @{ Name = 'The second socket' }
            }
            'Win32_PowerPlan' { New-Thing 'Win32_PowerPlan' @{ ElementName = 'High performance' } }
        }
    }
    'Get-AccountName' = { 'BOX\measurer' }
    'Get-AccountNumber' = { 'S-1-5-21-7-8-9-500' }
    'Read-ProductVersion' = { ' 3.42 ' }
    'Get-ScheduledTask' = {
        param($Bound)
        $name = [string]$Bound.TaskName
        if ($global:StandIn.Tasks.ContainsKey($name)) { New-Thing 'MSFT_ScheduledTask' @{ TaskName = $name; State = $global:StandIn.Tasks[$name] } }
        else { Deny-Call -Message "No MSFT_ScheduledTask objects found with property 'TaskName' equal to '$name'." -Category ObjectNotFound }
    }
    'Get-ScheduledTaskInfo' = {
        param($Bound)
        $name = [string]$Bound.TaskName
        if ($global:StandIn.Tasks.ContainsKey($name)) { New-Thing 'MSFT_TaskDynamicInfo' @{ LastTaskResult = [uint32]267009; LastRunTime = $global:StandIn.Ran[$name] } }
        else { Deny-Call -Message 'The system cannot find the file specified.' -Category ObjectNotFound }
    }
    'Stop-ScheduledTask' = { param($Bound) $global:StandIn.Tasks[[string]$Bound.TaskName] = 'Ready' }
    'Unregister-ScheduledTask' = { param($Bound) $global:StandIn.Tasks.Remove([string]$Bound.TaskName) }
    'New-ScheduledTaskAction' = { New-Thing 'an action' @{} }
    'New-ScheduledTaskPrincipal' = { New-Thing 'a principal' @{} }
    'New-ScheduledTaskSettingsSet' = { New-Thing 'settings' @{} }
    'Register-ScheduledTask' = { New-Thing 'a task' @{} }
}
