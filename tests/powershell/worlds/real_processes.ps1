# Processes of this machine itself, on Linux: the program of the case is started, waited for and ended.
$global:StandIn.Answers = @{
    'Get-CimInstance' = {
        foreach ($one in @(Get-Process)) {
            $parent = 0
            if ($one.Parent) { $parent = $one.Parent.Id }
            New-Thing 'Win32_Process' @{
                ProcessId = [uint32]$one.Id; ParentProcessId = [uint32]$parent; CreationDate = $one.StartTime; ExecutablePath = $one.Path; CommandLine = ''; Name = $one.ProcessName
            }
        }
    }
    'Start-Process' = { param($Bound) Microsoft.PowerShell.Management\Start-Process @Bound }
    'Stop-Process' = { param($Bound) Microsoft.PowerShell.Management\Stop-Process @Bound }
    'Wait-Process' = { param($Bound) Microsoft.PowerShell.Management\Wait-Process @Bound }
}
