# storlab: state
# Everything the plans need to know of the host. Reads only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string[]]$Files = @())
$Ansible.Changed = $false

$system = Get-CimInstance -ClassName Win32_OperatingSystem
$services = @(Get-CimInstance -ClassName Win32_Service -Filter "Name='WinTarget' OR Name='MSiSCSI'")
$running = @($services | Where-Object -Property State -EQ -Value 'Running' | ForEach-Object -Process { $_.Name })

$feature = $null
# A client with the tools for servers has the cmdlet, too, which refuses to work there.
if ($system.ProductType -ne 1) {
    $feature = "$((Get-WindowsFeature -Name FS-iSCSITarget-Server).InstallState)"
}

$virtualDisks = @()
$targets = @()
$portals = @()
if ($running -contains 'WinTarget') {
    $virtualDisks = @(Get-IscsiVirtualDisk -ComputerName localhost | ForEach-Object -Process {
        @{ path = $_.Path; size_bytes = $_.Size; description = "$($_.Description)"; status = "$($_.Status)"; serial = "$($_.SerialNumber)" }
    })
    # The statement foreach goes over nothing no times; a pipeline would make one of it.
    $targets = @(foreach ($target in @(Get-IscsiServerTarget -ComputerName localhost)) {
        @{
            name = $target.TargetName
            iqn = "$($target.TargetIqn)"
            description = "$($target.Description)"
            status = "$($target.Status)"
            initiators = @(foreach ($initiator in $target.InitiatorIds) { "$initiator" })
            luns = @(foreach ($mapping in $target.LunMappings) { @{ path = $mapping.Path; lun = $mapping.Lun } })
            chap = [bool]$target.EnableChap
            chap_user = "$($target.ChapUserName)"
            reverse_chap = [bool]$target.EnableReverseChap
            reverse_chap_user = "$($target.ReverseChapUserName)"
            sessions = @(foreach ($session in $target.Sessions) { "$($session.InitiatorId)" })
        }
    })
    $portals = @(foreach ($portal in (Get-IscsiTargetServerSetting -ComputerName localhost).Portals) { "$portal" })
}

$initiatorName = $null
$initiatorPortals = @()
$sessions = @()
if ($running -contains 'MSiSCSI') {
    $initiatorName = "$((Get-CimInstance -Namespace root/wmi -ClassName MSiSCSIInitiator_MethodClass).iSCSINodeName)"
    $initiatorPortals = @(Get-IscsiTargetPortal | ForEach-Object -Process {
        @{ address = "$($_.TargetPortalAddress)"; port = [int]$_.TargetPortalPortNumber }
    })
    $sessions = @(foreach ($session in @(Get-IscsiSession)) {
        $numbers = @()
        # To find none of what belongs to another thing is an error.
        try { $numbers = @(Get-Disk -iSCSISession $session | ForEach-Object -Process { [int]$_.Number }) }
        catch { if ("$($_.CategoryInfo.Category)" -ne 'ObjectNotFound') { throw } }
        @{
            id = "$($session.SessionIdentifier)"
            iqn = "$($session.TargetNodeAddress)"
            connected = [bool]$session.IsConnected
            persistent = [bool]$session.IsPersistent
            authentication = "$($session.AuthenticationType)"
            disks = $numbers
        }
    })
}

$pageFileLetters = @(Get-CimInstance -ClassName Win32_PageFileUsage | ForEach-Object -Process { "$($_.Name)".Substring(0, 1) })
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
        sector_bytes = [int]$_.LogicalSectorSize
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
        $entries = @(Get-ChildItem -LiteralPath $root -Force | ForEach-Object -Process {
            # Of a folder, which has no length, PowerShell would say 1.
            @{ name = $_.Name; size_bytes = if ($_.PSIsContainer) { $null } else { $_.Length } }
        })
    }
    @{
        letter = "$($_.DriveLetter)"
        label = "$($_.FileSystemLabel)"
        filesystem = "$($_.FileSystem)"
        size_bytes = $_.Size
        entries = $entries
    }
})

# A host whose firewall is turned off by its service does not answer; its rules, if any, can then not be changed either.
$rules = @()
if (Get-CimInstance -ClassName Win32_Service -Filter "Name='mpssvc' AND State='Running'") {
    try { $rules = @(Get-NetFirewallRule -DisplayName 'storlab*' | ForEach-Object -Process { $_.DisplayName }) }
    catch { if ("$($_.CategoryInfo.Category)" -ne 'ObjectNotFound') { throw } }
}
$boot = $system.LastBootUpTime.ToUniversalTime().ToString('yyyy-MM-ddTHH:mm:ssZ', [System.Globalization.CultureInfo]::InvariantCulture)

$Ansible.Result = @{
    about = @{ product = $system.Caption; version = $system.Version; boot = $boot }
    feature = $feature
    services = @($services | ForEach-Object -Process { @{ name = $_.Name; state = $_.State; start_mode = $_.StartMode } })
    virtual_disks = $virtualDisks
    targets = $targets
    portals = $portals
    loopback = (Get-ItemProperty -LiteralPath 'HKLM:\SOFTWARE\Microsoft\iSCSI Target' -ErrorAction SilentlyContinue).AllowLoopBack
    firewall_rules = $rules
    initiator = @{ iqn = $initiatorName; portals = $initiatorPortals; sessions = $sessions }
    disks = $disks
    volumes = $volumes
    files = @($Files | Where-Object -FilterScript { Test-Path -LiteralPath $_ })
}
