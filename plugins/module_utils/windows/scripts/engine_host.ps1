# storlab: engine_host
# The program that measures, and what its figures depend on. Reads only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Program)
$Ansible.Changed = $false

$system = Get-CimInstance -ClassName Win32_OperatingSystem
$computer = Get-CimInstance -ClassName Win32_ComputerSystem
$processor = Get-CimInstance -ClassName Win32_Processor | Select-Object -First 1
$plan = Get-CimInstance -Namespace root/cimv2/power -ClassName Win32_PowerPlan -Filter 'IsActive=TRUE' -ErrorAction SilentlyContinue
$found = Get-Command -Name $Program -CommandType Application -ErrorAction SilentlyContinue | Select-Object -First 1
$path = $null
$version = $null
if ($found) {
    $path = $found.Source
    $version = (Get-Item -LiteralPath $path).VersionInfo.ProductVersion
}

$Ansible.Result = @{
    program = $path
    version = if ($version) { $version.Trim() } else { $null }
    account = [System.Security.Principal.WindowsIdentity]::GetCurrent().Name
    console_user = "$($computer.UserName)"
    cpu = @{ model = "$($processor.Name)".Trim(); cores = [int]$computer.NumberOfLogicalProcessors; sockets = [int]$computer.NumberOfProcessors }
    memory_bytes = $computer.TotalPhysicalMemory
    product = $system.Caption
    version_os = $system.Version
    build = $system.BuildNumber
    power_plan = "$($plan.ElementName)"
    hypervisor = [bool]$computer.HypervisorPresent
    machine = "$($computer.Manufacturer) $($computer.Model)".Trim()
}
