# storlab: engine_host
# parts: windows_only/edition, windows_only/account, windows_only/product_version
# The program that measures, and what its figures depend on. Reads only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Program)
$Ansible.Changed = $false
Assert-WindowsPowerShell

$system = Get-CimInstance -ClassName Win32_OperatingSystem
$computer = Get-CimInstance -ClassName Win32_ComputerSystem
$processor = Get-CimInstance -ClassName Win32_Processor | Select-Object -First 1
$plan = Get-CimInstance -Namespace root/cimv2/power -ClassName Win32_PowerPlan -Filter 'IsActive=TRUE' -ErrorAction SilentlyContinue
$found = Get-Command -Name $Program -CommandType Application -ErrorAction SilentlyContinue | Select-Object -First 1
$path = $null
$version = $null
if ($found) {
    $path = $found.Path
    $version = Read-ProductVersion -Path $path
}

$Ansible.Result = @{
    program = $path
    version = if ($version) { $version.Trim() } else { $null }
    account = Get-AccountName
    console_user = [string]$computer.UserName
    cpu = @{ model = ([string]$processor.Name).Trim(); cores = [int]$computer.NumberOfLogicalProcessors; sockets = [int]$computer.NumberOfProcessors }
    memory_bytes = $computer.TotalPhysicalMemory
    product = $system.Caption
    version_os = $system.Version
    build = $system.BuildNumber
    power_plan = if ($plan) { [string]$plan.ElementName } else { '' }
    hypervisor = [bool]$computer.HypervisorPresent
    machine = "$($computer.Manufacturer) $($computer.Model)".Trim()
}
