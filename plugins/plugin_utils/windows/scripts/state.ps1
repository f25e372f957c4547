# storlab: state
# parts: windows_only/edition, windows_only/registry
# Everything the plans need to know of the host. Reads only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string[]]$Files = @())
$Ansible.Changed = $false
Assert-WindowsPowerShell

# The text that a property holds: as it is, or the value of an object that stands for a text. What an object makes of itself for people is not asked.
function Get-Text {
    param($Thing)
    if ($null -eq $Thing) { return '' }
    if ($Thing -is [string] -or $Thing -is [ValueType]) { return [string]$Thing }
    $value = $Thing.PSObject.Properties['Value']
    if ($value) { return [string]$value.Value }
    ''
}

$system = Get-CimInstance -ClassName Win32_OperatingSystem
$services = @(Get-CimInstance -ClassName Win32_Service -Filter "Name='WinTarget' OR Name='MSiSCSI'")
$running = @($services | Where-Object -Property State -EQ -Value 'Running' | ForEach-Object -Process { $_.Name })

$feature = $null
# A client with the tools for servers has the cmdlet, too, which refuses to work there.
if ($system.ProductType -ne 1) {
    $feature = Get-Text (Get-WindowsFeature -Name FS-iSCSITarget-Server).InstallState
}

$virtualDisks = @()
$targets = @()
$portals = @()
if ($running -contains 'WinTarget') {
    $virtualDisks = @(Get-IscsiVirtualDisk -ComputerName localhost | ForEach-Object -Process {
        @{ path = Get-Text $_.Path; size_bytes = $_.Size; description = Get-Text $_.Description; status = Get-Text $_.Status; serial = Get-Text $_.SerialNumber }
    })
    # The IQN is an object of its own there; here it is text.
    $iqns = @{}
    Get-CimInstance -Namespace root/wmi -ClassName WT_Host | ForEach-Object -Process { $iqns[$_.HostName] = $_.TargetIQN }
    # Where a kind of initiator is a number, these are its names in the documentation of WT_IDMethod.
    $kinds = @{ '1' = 'DNSName'; '2' = 'IPAddress'; '3' = 'MACAddress'; '4' = 'IQN'; '5' = 'IPv6Address' }
    # The statement foreach goes over nothing no times; a pipeline would make one of it.
    $targets = @(foreach ($target in @(Get-IscsiServerTarget -ComputerName localhost)) {
        @{
            name = $target.TargetName
            iqn = Get-Text $iqns[$target.TargetName]
            description = Get-Text $target.Description
            status = Get-Text $target.Status
            initiators = @(foreach ($initiator in $target.InitiatorIds) {
                $kind = Get-Text $initiator.Method
                if ($kinds.ContainsKey($kind)) { $kind = $kinds[$kind] }
                "${kind}:$($initiator.Value)"
            })
            luns = @(foreach ($mapping in $target.LunMappings) { @{ path = $mapping.Path; lun = [int]$mapping.Lun } })
            chap = [bool]$target.EnableChap
            chap_user = Get-Text $target.ChapUserName
            reverse_chap = [bool]$target.EnableReverseChap
            reverse_chap_user = Get-Text $target.ReverseChapUserName
            sessions = @(foreach ($session in $target.Sessions) { Get-Text $session.InitiatorId })
        }
    })
    $portals = @(foreach ($portal in (Get-IscsiTargetServerSetting -ComputerName localhost).Portals) {
        @{ address = $portal.IPEndpoint.Address.IPAddressToString; port = [int]$portal.IPEndpoint.Port; enabled = [bool]$portal.Enabled }
    })
}

$initiatorName = $null
$initiatorPortals = @()
$sessions = @()
if ($running -contains 'MSiSCSI') {
    $initiatorName = Get-Text (Get-CimInstance -Namespace root/wmi -ClassName MSiSCSIInitiator_MethodClass).iSCSINodeName
    $initiatorPortals = @(Get-IscsiTargetPortal | ForEach-Object -Process {
        @{ address = Get-Text $_.TargetPortalAddress; port = [int]$_.TargetPortalPortNumber }
    })
    $sessions = @(foreach ($session in @(Get-IscsiSession)) {
        $numbers = @()
        # To find none of what belongs to another thing is an error.
        try { $numbers = @(Get-Disk -iSCSISession $session | ForEach-Object -Process { [int]$_.Number }) }
        catch { if ([string]$_.CategoryInfo.Category -ne 'ObjectNotFound') { throw } }
        @{
            id = Get-Text $session.SessionIdentifier
            iqn = Get-Text $session.TargetNodeAddress
            connected = [bool]$session.IsConnected
            persistent = [bool]$session.IsPersistent
            authentication = Get-Text $session.AuthenticationType
            disks = $numbers
        }
    })
}

$pageFileLetters = @(Get-CimInstance -ClassName Win32_PageFileUsage | ForEach-Object -Process { (Get-Text $_.Name).Substring(0, 1) })
$units = @{}
# As it is: a unit that is not known is not the first one.
Get-CimInstance -ClassName Win32_DiskDrive | ForEach-Object -Process { $units[[int]$_.Index] = $_.SCSILogicalUnit }
# Windows itself lies on some, so to find none is an error, too: a disk whose partitions are not seen would look blank.
$partitions = @(Get-Partition)
# A cluster shows disks of its other hosts, too, which have no number here.
$disks = @(Get-Disk | Where-Object -FilterScript { $null -ne $_.Number } | ForEach-Object -Process {
    $number = [int]$_.Number
    $own = @($partitions | Where-Object -Property DiskNumber -EQ -Value $number | ForEach-Object -Process {
        @{
            number = [int]$_.PartitionNumber
            type = Get-Text $_.Type
            size_bytes = $_.Size
            letter = (Get-Text $_.DriveLetter).Trim([char]0)
            folders = @($_.AccessPaths | Where-Object -FilterScript { $_ -match '^[A-Za-z]:\\.' })
        }
    })
    @{
        number = $number
        lun = $units[$number]
        name = Get-Text $_.FriendlyName
        serial = (Get-Text $_.SerialNumber).Trim()
        unique_id = Get-Text $_.UniqueId
        size_bytes = $_.Size
        sector_bytes = [int]$_.LogicalSectorSize
        bus = Get-Text $_.BusType
        style = Get-Text $_.PartitionStyle
        offline = [bool]$_.IsOffline
        read_only = [bool]$_.IsReadOnly
        boot = [bool]$_.IsBoot
        system = [bool]$_.IsSystem
        clustered = [bool]$_.IsClustered
        offline_reason = if ($_.IsOffline) { Get-Text $_.OfflineReason } else { '' }
        page_file = @($own | Where-Object -FilterScript { $pageFileLetters -contains $_.letter }).Count -gt 0
        partitions = $own
    }
})
$volumes = @(Get-Volume | Where-Object -FilterScript { (Get-Text $_.DriveLetter).Trim([char]0) } | ForEach-Object -Process {
    $root = "$($_.DriveLetter):\"
    $entries = @()
    if ((Get-Text $_.FileSystemLabel) -like 'storlab-*') {
        $entries = @(Get-ChildItem -LiteralPath $root -Force | ForEach-Object -Process {
            # Of a folder, which has no length, PowerShell would say 1.
            @{ name = $_.Name; size_bytes = if ($_.PSIsContainer) { $null } else { $_.Length } }
        })
    }
    @{
        letter = Get-Text $_.DriveLetter
        label = Get-Text $_.FileSystemLabel
        filesystem = Get-Text $_.FileSystem
        size_bytes = $_.Size
        entries = $entries
    }
})

# A host whose firewall is turned off by its service does not answer; its rules, if any, can then not be changed either.
$rules = @()
if (Get-CimInstance -ClassName Win32_Service -Filter "Name='mpssvc' AND State='Running'") {
    try { $rules = @(Get-NetFirewallRule -DisplayName 'storlab*' | ForEach-Object -Process { $_.DisplayName }) }
    catch { if ([string]$_.CategoryInfo.Category -ne 'ObjectNotFound') { throw } }
}
$boot = $system.LastBootUpTime.ToUniversalTime().ToString('yyyy-MM-ddTHH:mm:ssZ', [System.Globalization.CultureInfo]::InvariantCulture)

$Ansible.Result = @{
    about = @{ product = $system.Caption; version = $system.Version; boot = $boot }
    feature = $feature
    services = @($services | ForEach-Object -Process { @{ name = $_.Name; state = $_.State; start_mode = $_.StartMode } })
    virtual_disks = $virtualDisks
    targets = $targets
    portals = $portals
    loopback = Read-HostValue -Key 'SOFTWARE\Microsoft\iSCSI Target' -Name AllowLoopBack
    firewall_rules = $rules
    initiator = @{ iqn = $initiatorName; portals = $initiatorPortals; sessions = $sessions }
    disks = $disks
    volumes = $volumes
    files = @($Files | Where-Object -FilterScript { Test-Path -LiteralPath $_ })
}
