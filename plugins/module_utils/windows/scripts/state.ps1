# storlab: state
# Everything the plans need to know of the host. Reads only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string[]]$Files = @())
$Ansible.Changed = $false

$system = Get-CimInstance -ClassName Win32_OperatingSystem
$services = @(Get-CimInstance -ClassName Win32_Service -Filter "Name='WinTarget' OR Name='MSiSCSI'")
$running = @($services | Where-Object -Property State -EQ -Value 'Running' | ForEach-Object -Process { $_.Name })

$feature = $null
if (Get-Command -Name Get-WindowsFeature -ErrorAction SilentlyContinue) {
    $feature = "$((Get-WindowsFeature -Name FS-iSCSITarget-Server).InstallState)"
}

$virtualDisks = @()
$targets = @()
$portals = @()
if ($running -contains 'WinTarget') {
    $virtualDisks = @(Get-IscsiVirtualDisk -ComputerName localhost | ForEach-Object -Process {
        @{ path = $_.Path; size_bytes = $_.Size; description = "$($_.Description)"; status = "$($_.Status)"; serial = "$($_.SerialNumber)" }
    })
    $targets = @(Get-IscsiServerTarget -ComputerName localhost | ForEach-Object -Process {
        @{
            name = $_.TargetName
            iqn = "$($_.TargetIqn)"
            description = "$($_.Description)"
            status = "$($_.Status)"
            initiators = @($_.InitiatorIds | ForEach-Object -Process { "$_" })
            luns = @($_.LunMappings | ForEach-Object -Process { @{ path = $_.Path; lun = $_.Lun } })
            chap = [bool]$_.EnableChap
            chap_user = "$($_.ChapUserName)"
            reverse_chap = [bool]$_.EnableReverseChap
            reverse_chap_user = "$($_.ReverseChapUserName)"
            sessions = @($_.Sessions | ForEach-Object -Process { "$($_.InitiatorId)" })
        }
    })
    $portals = @((Get-IscsiTargetServerSetting -ComputerName localhost).Portals | ForEach-Object -Process { "$_" })
}

$initiatorName = $null
$initiatorPortals = @()
$sessions = @()
if ($running -contains 'MSiSCSI') {
    $initiatorName = "$((Get-CimInstance -Namespace root/wmi -ClassName MSiSCSIInitiator_MethodClass).iSCSINodeName)"
    $initiatorPortals = @(Get-IscsiTargetPortal | ForEach-Object -Process {
        @{ address = "$($_.TargetPortalAddress)"; port = [int]$_.TargetPortalPortNumber }
    })
    $sessions = @(Get-IscsiSession | ForEach-Object -Process {
        @{
            id = "$($_.SessionIdentifier)"
            iqn = "$($_.TargetNodeAddress)"
            connected = [bool]$_.IsConnected
            persistent = [bool]$_.IsPersistent
            authentication = "$($_.AuthenticationType)"
            disks = @(Get-Disk -iSCSISession $_ | ForEach-Object -Process { [int]$_.Number })
        }
    })
}

$pageFileLetters = @(Get-CimInstance -ClassName Win32_PageFileUsage | ForEach-Object -Process { "$($_.Name)".Substring(0, 1) })
$units = @{}
Get-CimInstance -ClassName Win32_DiskDrive | ForEach-Object -Process { $units[[int]$_.Index] = [int]$_.SCSILogicalUnit }
$partitions = @(Get-Partition -ErrorAction SilentlyContinue)
$disks = @(Get-Disk | ForEach-Object -Process {
    $number = [int]$_.Number
    $own = @($partitions | Where-Object -Property DiskNumber -EQ -Value $number | ForEach-Object -Process {
        @{
            number = [int]$_.PartitionNumber
            type = "$($_.Type)"
            size_bytes = $_.Size
            letter = "$($_.DriveLetter)".Trim([char]0)
            folders = @($_.AccessPaths | Where-Object -FilterScript { $_ -match '^[A-Za-z]:\\.' })
        }
    })
    @{
        number = $number
        lun = $units[$number]
        name = "$($_.FriendlyName)"
        serial = "$($_.SerialNumber)".Trim()
        unique_id = "$($_.UniqueId)"
        size_bytes = $_.Size
        bus = "$($_.BusType)"
        style = "$($_.PartitionStyle)"
        offline = [bool]$_.IsOffline
        read_only = [bool]$_.IsReadOnly
        boot = [bool]$_.IsBoot
        system = [bool]$_.IsSystem
        clustered = [bool]$_.IsClustered
        offline_reason = if ($_.IsOffline) { "$($_.OfflineReason)" } else { '' }
        page_file = @($own | Where-Object -FilterScript { $pageFileLetters -contains $_.letter }).Count -gt 0
        partitions = $own
    }
})
$volumes = @(Get-Volume | Where-Object -FilterScript { "$($_.DriveLetter)".Trim([char]0) } | ForEach-Object -Process {
    $root = "$($_.DriveLetter):\"
    $entries = @()
    if ("$($_.FileSystemLabel)" -like 'storlab-*') {
        $entries = @(Get-ChildItem -LiteralPath $root -Force | ForEach-Object -Process { @{ name = $_.Name; size_bytes = $_.Length } })
    }
    @{
        letter = "$($_.DriveLetter)"
        label = "$($_.FileSystemLabel)"
        filesystem = "$($_.FileSystem)"
        size_bytes = $_.Size
        entries = $entries
    }
})

$Ansible.Result = @{
    about = @{ product = $system.Caption; version = $system.Version; boot = $system.LastBootUpTime.ToUniversalTime().ToString('yyyy-MM-ddTHH:mm:ssZ') }
    feature = $feature
    services = @($services | ForEach-Object -Process { @{ name = $_.Name; state = $_.State; start_mode = $_.StartMode } })
    virtual_disks = $virtualDisks
    targets = $targets
    portals = $portals
    loopback = (Get-ItemProperty -LiteralPath 'HKLM:\SOFTWARE\Microsoft\iSCSI Target' -ErrorAction SilentlyContinue).AllowLoopBack
    firewall_rules = @(Get-NetFirewallRule -DisplayName 'storlab*' -ErrorAction SilentlyContinue | ForEach-Object -Process { $_.DisplayName })
    initiator = @{ iqn = $initiatorName; portals = $initiatorPortals; sessions = $sessions }
    disks = $disks
    volumes = $volumes
    files = @($Files | Where-Object -FilterScript { Test-Path -LiteralPath $_ })
}
