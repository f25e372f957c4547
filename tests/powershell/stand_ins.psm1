# Stand-ins for what the scripts call on Windows. They are stricter than Windows: a call is bound only to documented parameters, parameter sets,
# types and values (cmdlets.json; run_cases.ps1 adds those functions to this file), and what a world does not answer gives nothing.
# Each call is written down, and answered by the world of its case: a hashtable of cmdlet -> script block, which is given the bound parameters.
# Written for Windows PowerShell 5.1 and PowerShell 7 alike.

# Calls: what was called, in order. Answers: the world. Registry: 'number of an account\key' -> values. Folder: the case's own.
function Set-World {
    param([System.Collections.IList]$Calls, [string]$Folder, [string]$World, [string]$Change)
    $global:StandIn = @{ Calls = $Calls; Folder = $Folder; Answers = @{}; Registry = @{} }
    . $World
    if ($Change) { . ([scriptblock]::Create($Change)) }
}

# ---- for worlds

# An object as a cmdlet gives it. Whoever takes its text instead of its properties reads what no expectation contains.
function New-Thing {
    param([string]$Type, [hashtable]$Properties)
    $thing = New-Object -TypeName PSObject -Property $Properties
    $thing.PSObject.TypeNames.Insert(0, $Type)
    Add-Member -InputObject $thing -MemberType ScriptMethod -Name ToString -Value { 'TEXT FOR PEOPLE' } -Force
    $thing
}

# How a cmdlet refuses: by an error after which a script may go on, or by one that ends it.
function Deny-Call {
    param([string]$Message, [string]$Category = 'PermissionDenied', [switch]$Terminating)
    if ($Terminating) {
        $exception = New-Object -TypeName System.InvalidOperationException -ArgumentList $Message
        throw (New-Object -TypeName System.Management.Automation.ErrorRecord -ArgumentList $exception, 'Refused', $Category, $null)
    }
    Write-Error -Message $Message -Category $Category
}

# ---- for stand-ins

function Add-Call {
    param([string]$Name, $Bound)
    $given = @{}
    foreach ($key in @($Bound.Keys)) { $given[$key] = $Bound[$key] }
    $null = $global:StandIn.Calls.Add(@{ name = $Name; parameters = $given })
}

function Invoke-StandIn {
    param([string]$Name, $Bound)
    Add-Call -Name $Name -Bound $Bound
    $answer = $global:StandIn.Answers[$Name]
    if ($null -eq $answer) { $answer = $global:StandIn.Answers['*'] }
    if ($null -ne $answer) { & $answer $Bound $Name }
}

# ---- cmdlets of PowerShell itself that are about the host, its processes and its time

function Get-CimInstance {
    [CmdletBinding()]
    param([Parameter(Mandatory = $true, Position = 0)][string]$ClassName, [string]$Namespace, [string]$Filter)
    Invoke-StandIn 'Get-CimInstance' $PSBoundParameters
}
function Start-Service {
    [CmdletBinding(SupportsShouldProcess = $true)]
    param([Parameter(Mandatory = $true, Position = 0)][string[]]$Name, [switch]$PassThru)
    Invoke-StandIn 'Start-Service' $PSBoundParameters
}
function Stop-Service {
    [CmdletBinding(SupportsShouldProcess = $true)]
    param([Parameter(Mandatory = $true, Position = 0)][string[]]$Name, [switch]$Force, [switch]$NoWait, [switch]$PassThru)
    Invoke-StandIn 'Stop-Service' $PSBoundParameters
}
function Start-Process {
    [CmdletBinding()]
    param(
        [Parameter(Mandatory = $true, Position = 0)][string]$FilePath, [Parameter(Position = 1)][ValidateNotNullOrEmpty()][string[]]$ArgumentList, [string]$WorkingDirectory,
        [string]$RedirectStandardInput, [string]$RedirectStandardOutput, [string]$RedirectStandardError, [switch]$NoNewWindow, [switch]$PassThru, [switch]$Wait
    )
    Invoke-StandIn 'Start-Process' $PSBoundParameters
}
function Stop-Process {
    [CmdletBinding(SupportsShouldProcess = $true)]
    param([Parameter(Mandatory = $true, Position = 0)][int[]]$Id, [switch]$Force, [switch]$PassThru)
    Invoke-StandIn 'Stop-Process' $PSBoundParameters
}
function Wait-Process {
    [CmdletBinding()]
    param([Parameter(Mandatory = $true, Position = 0)][int[]]$Id, [int]$Timeout)
    Invoke-StandIn 'Wait-Process' $PSBoundParameters
}
# No time passes.
function Start-Sleep {
    [CmdletBinding()]
    param([Parameter(Mandatory = $true)][int]$Milliseconds)
    Invoke-StandIn 'Start-Sleep' $PSBoundParameters
}

# ---- the functions of scripts/parts/windows_only; a test holds that these are all of them, and that they take the same parameters

function Assert-WindowsPowerShell { Invoke-StandIn 'Assert-WindowsPowerShell' @{} }
function Get-AccountName { Invoke-StandIn 'Get-AccountName' @{} }
function Get-AccountNumber { Invoke-StandIn 'Get-AccountNumber' @{} }
function Read-ProductVersion {
    param([string]$Path)
    Invoke-StandIn 'Read-ProductVersion' $PSBoundParameters
}
function Read-HostValue {
    param([string]$Key, [string]$Name)
    Invoke-StandIn 'Read-HostValue' $PSBoundParameters
}
# The case's own file, for reading alone.
function Open-RawStream {
    param([string]$Path)
    Add-Call -Name 'Open-RawStream' -Bound $PSBoundParameters
    [System.IO.File]::OpenRead($Path)
}
# It makes the folder, and the world says whose that is.
function New-OwnedFolder {
    param([string]$Path)
    Add-Call -Name 'New-OwnedFolder' -Bound $PSBoundParameters
    $null = [System.IO.Directory]::CreateDirectory($Path)
}
function Read-FolderRights {
    param([string]$Path)
    Add-Call -Name 'Read-FolderRights' -Bound $PSBoundParameters
    $rights = @{ leads_elsewhere = $false; owner = 'S-1-5-32-544'; protected = $true; rules = @(@{ who = 'S-1-5-18'; allows = $true; below_only = $false; rights = 0x1F01FF }) }
    $name = [System.IO.Path]::GetFileName($Path)
    $answer = $global:StandIn.Answers['Read-FolderRights']
    if ($answer -and $answer.ContainsKey($name)) { foreach ($key in $answer[$name].Keys) { $rights[$key] = $answer[$name][$key] } }
    $rights
}

# The registry is one table; a key is there when it, or one below it, is in it.
function Find-Key {
    param([string]$Path)
    @($global:StandIn.Registry.Keys | Where-Object -FilterScript { $_ -eq $Path -or $_.StartsWith("$Path\", [System.StringComparison]::OrdinalIgnoreCase) })
}
function Test-UserHive {
    param([string]$Hive)
    @(Find-Key $Hive).Count -gt 0
}
function Test-UserKey {
    param([string]$Hive, [string]$Key)
    @(Find-Key "$Hive\$Key").Count -gt 0
}
function Read-UserValue {
    param([string]$Hive, [string]$Key, [string]$Name)
    if ($global:StandIn.Registry.ContainsKey("$Hive\$Key")) { $global:StandIn.Registry["$Hive\$Key"][$Name] }
}
function Write-UserValue {
    param([string]$Hive, [string]$Key, [string]$Name, [string]$Value)
    Add-Call -Name 'Write-UserValue' -Bound $PSBoundParameters
    if ($global:StandIn.Answers['Write-UserValue']) { & ($global:StandIn.Answers['Write-UserValue']) }
    # Making a key makes those above it.
    $place = $Hive
    foreach ($part in $Key.Split('\')) {
        $place = "$place\$part"
        if (-not $global:StandIn.Registry.ContainsKey($place)) { $global:StandIn.Registry[$place] = @{} }
    }
    $global:StandIn.Registry["$Hive\$Key"][$Name] = $Value
}
function Remove-UserValue {
    param([string]$Hive, [string]$Key, [string]$Name)
    if (-not $global:StandIn.Registry.ContainsKey("$Hive\$Key")) { throw "There is no key $Key." }
    $global:StandIn.Registry["$Hive\$Key"].Remove($Name)
}
function Remove-UserKey {
    param([string]$Hive, [string]$Key)
    foreach ($path in @(Find-Key "$Hive\$Key")) { $global:StandIn.Registry.Remove($path) }
}

# ---- of the modules IscsiTarget, iSCSI, Storage, NetSecurity, ScheduledTasks and ServerManager; added by run_cases.ps1
