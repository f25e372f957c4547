# A server: it exports three targets, is a client of its own, and has disks of every kind. Objects are as Windows gives them: their types, their
# properties; what they say of themselves as text is for people (New-Thing), and never what a plan may go by.
$global:StandIn.Answers = @{
    'Get-CimInstance' = {
        param($Bound)
        switch ("$($Bound.Namespace)|$($Bound.ClassName)|$($Bound.Filter)") {
            '|Win32_OperatingSystem|' {
                New-Thing 'Win32_OperatingSystem' @{ ProductType = [uint32]3; Caption = 'Windows Server 2022 Standard'; Version = '10.0.20348'; LastBootUpTime = (New-Object -TypeName DateTime -ArgumentList 2026, 11, 2, 3, 4, 5, ([System.DateTimeKind]::Utc)).ToLocalTime() }
            }
            "|Win32_Service|Name='WinTarget' OR Name='MSiSCSI'" {
                New-Thing 'Win32_Service' @{ Name = 'MSiSCSI'; State = 'Running'; StartMode = 'Manual' }
                New-Thing 'Win32_Service' @{ Name = 'WinTarget'; State = 'Running'; StartMode = 'Auto' }
            }
            "|Win32_Service|Name='mpssvc' AND State='Running'" { New-Thing 'Win32_Service' @{ Name = 'mpssvc'; State = 'Running'; StartMode = 'Auto' } }
            'root/wmi|WT_Host|' {
                New-Thing 'WT_Host' @{ HostName = 'storlab-a'; TargetIQN = 'iqn.2026-11.org.example:a' }
                New-Thing 'WT_Host' @{ HostName = 'storlab-none'; TargetIQN = 'iqn.2026-11.org.example:none' }
                New-Thing 'WT_Host' @{ HostName = 'other'; TargetIQN = 'iqn.1991-05.com.microsoft:box-other-target' }
            }
            'root/wmi|MSiSCSIInitiator_MethodClass|' { New-Thing 'MSiSCSIInitiator_MethodClass' @{ iSCSINodeName = 'iqn.1991-05.com.microsoft:box' } }
            '|Win32_PageFileUsage|' { New-Thing 'Win32_PageFileUsage' @{ Name = 'D:\pagefile.sys' } }
            '|Win32_DiskDrive|' {
                New-Thing 'Win32_DiskDrive' @{ Index = [uint32]0; SCSILogicalUnit = [uint16]0 }
                New-Thing 'Win32_DiskDrive' @{ Index = [uint32]1; SCSILogicalUnit = [uint16]5 }
                New-Thing 'Win32_DiskDrive' @{ Index = [uint32]2; SCSILogicalUnit = $null }
            }
            default { throw "Nobody should ask for $_." }
        }
    }
    'Get-WindowsFeature' = { New-Thing 'Feature' @{ Name = 'FS-iSCSITarget-Server'; InstallState = 'Installed' } }
    'Get-IscsiVirtualDisk' = {
        New-Thing 'IscsiVirtualDisk' @{ Path = 'ramdisk:storlab-a.vhdx'; Size = [uint64]8589934592; Description = 'storlab testbed t1: a'; Status = 'Connected'; SerialNumber = 'ABCD-1' }
        New-Thing 'IscsiVirtualDisk' @{ Path = 'D:\lab\b.vhdx'; Size = [uint64]8796093022720; Description = $null; Status = 'NotConnected'; SerialNumber = 'ABCD-2' }
    }
    'Get-IscsiServerTarget' = {
        New-Thing 'IscsiServerTarget' @{
            TargetName = 'storlab-a'; TargetIqn = (New-Thing 'Iqn' @{}); Description = 'storlab testbed t1'; Status = 'Connected'
            InitiatorIds = @(
                (New-Thing 'InitiatorId' @{ Method = 'IQN'; Value = 'iqn.1991-05.com.microsoft:box' })
                (New-Thing 'InitiatorId' @{ Method = [int]1; Value = 'client.lab.example' })
                (New-Thing 'InitiatorId' @{ Method = [int]2; Value = '192.0.2.9' })
                (New-Thing 'InitiatorId' @{ Method = [int]3; Value = '00-1A-2B-3C-4D-5E' })
                (New-Thing 'InitiatorId' @{ Method = [int]4; Value = 'iqn.2026-11.org.example:client' })
                (New-Thing 'InitiatorId' @{ Method = [int]5; Value = '2001:db8::9' })
            )
            LunMappings = @((New-Thing 'LunMapping' @{ Path = 'ramdisk:storlab-a.vhdx'; Lun = [int]5 }), (New-Thing 'LunMapping' @{ Path = 'D:\lab\b.vhdx'; Lun = [int]7 }))
            EnableChap = $true; ChapUserName = 'user-in'; EnableReverseChap = $true; ReverseChapUserName = 'user-out'
            Sessions = @((New-Thing 'Session' @{ InitiatorId = (New-Thing 'InitiatorId' @{ Method = 'IQN'; Value = 'iqn.1991-05.com.microsoft:box' }) }), (New-Thing 'Session' @{ InitiatorId = 'iqn.2026-11.org.example:client' }))
        }
        New-Thing 'IscsiServerTarget' @{
            TargetName = 'storlab-none'; TargetIqn = (New-Thing 'Iqn' @{}); Description = $null; Status = 'NotConnected'; InitiatorIds = @(); LunMappings = @()
            EnableChap = $false; ChapUserName = $null; EnableReverseChap = $false; ReverseChapUserName = $null; Sessions = @()
        }
        New-Thing 'IscsiServerTarget' @{
            TargetName = 'other'; TargetIqn = (New-Thing 'Iqn' @{}); Description = 'by hand'; Status = 'Disabled'; InitiatorIds = $null; LunMappings = $null
            EnableChap = $false; ChapUserName = ''; EnableReverseChap = $true; ReverseChapUserName = 'theirs'; Sessions = $null
        }
    }
    'Get-IscsiTargetServerSetting' = {
        New-Thing 'IscsiTargetServerSetting' @{
            Portals = @(
                (New-Thing 'Portal' @{ IPEndpoint = (New-Object -TypeName System.Net.IPEndPoint -ArgumentList ([System.Net.IPAddress]::Parse('192.0.2.1')), 3260); Enabled = $true })
                (New-Thing 'Portal' @{ IPEndpoint = (New-Object -TypeName System.Net.IPEndPoint -ArgumentList ([System.Net.IPAddress]::Parse('2001:db8::1')), 3261); Enabled = $false })
            )
        }
    }
    'Read-HostValue' = { [int]1 }
    'Get-IscsiTargetPortal' = {
        New-Thing 'MSFT_iSCSITargetPortal' @{ TargetPortalAddress = '192.0.2.1'; TargetPortalPortNumber = [uint16]3260 }
        New-Thing 'MSFT_iSCSITargetPortal' @{ TargetPortalAddress = '198.51.100.1'; TargetPortalPortNumber = [uint16]3262 }
    }
    'Get-IscsiSession' = {
        New-Thing 'session one' @{ SessionIdentifier = 'ffff-1'; TargetNodeAddress = 'iqn.2026-11.org.example:a'; IsConnected = $true; IsPersistent = $false; AuthenticationType = 'ONEWAYCHAP' }
        New-Thing 'session two' @{ SessionIdentifier = 'ffff-2'; TargetNodeAddress = 'iqn.2026-11.org.example:none'; IsConnected = $false; IsPersistent = $true; AuthenticationType = 'NONE' }
    }
    'Get-Disk' = {
        param($Bound)
        if ($Bound.ContainsKey('iSCSISession')) {
            if ($Bound.iSCSISession.SessionIdentifier -eq 'ffff-1') {
                New-Thing 'MSFT_Disk' @{ Number = [uint32]1 }
                New-Thing 'MSFT_Disk' @{ Number = [uint32]4 }
            }
            else { Deny-Call -Message "No MSFT_Disk objects found." -Category ObjectNotFound }
            return
        }
        # The system's; one of a session; an MBR disk; one of a cluster's other host, without a number; a dynamic one; one that is said to be offline by policy.
        New-Thing 'MSFT_Disk' @{ Number = [uint32]0; FriendlyName = 'System disk'; SerialNumber = ' SYS0 '; UniqueId = 'X0'; Size = [uint64]68719476736; LogicalSectorSize = [uint32]512; BusType = 'SATA'; PartitionStyle = 'GPT'; IsOffline = $false; IsReadOnly = $false; IsBoot = $true; IsSystem = $false; IsClustered = $false; OfflineReason = 'stale' }
        New-Thing 'MSFT_Disk' @{ Number = [uint32]1; FriendlyName = 'MSFT Virtual HD'; SerialNumber = 'ABCD-1'; UniqueId = 'X1'; Size = [uint64]8589934592; LogicalSectorSize = [uint32]4096; BusType = 'iSCSI'; PartitionStyle = 'RAW'; IsOffline = $true; IsReadOnly = $true; IsBoot = $false; IsSystem = $false; IsClustered = $false; OfflineReason = 'Policy' }
        New-Thing 'MSFT_Disk' @{ Number = [uint32]2; FriendlyName = 'With an MBR'; SerialNumber = $null; UniqueId = 'X2'; Size = [uint64]8796093022720; LogicalSectorSize = [uint32]512; BusType = 'SAS'; PartitionStyle = 'MBR'; IsOffline = $false; IsReadOnly = $true; IsBoot = $false; IsSystem = $true; IsClustered = $false; OfflineReason = $null }
        New-Thing 'MSFT_Disk' @{ Number = $null; FriendlyName = 'Of another host'; SerialNumber = 'FAR'; UniqueId = 'X9'; Size = [uint64]1; LogicalSectorSize = [uint32]512; BusType = 'iSCSI'; PartitionStyle = 'RAW'; IsOffline = $true; IsReadOnly = $true; IsBoot = $false; IsSystem = $false; IsClustered = $true; OfflineReason = 'Policy' }
        New-Thing 'MSFT_Disk' @{ Number = [uint32]3; FriendlyName = 'Dynamic'; SerialNumber = 'DYN'; UniqueId = 'X3'; Size = [uint64]2199023255552; LogicalSectorSize = [uint32]512; BusType = 'RAID'; PartitionStyle = 'GPT'; IsOffline = $false; IsReadOnly = $false; IsBoot = $false; IsSystem = $false; IsClustered = $true; OfflineReason = $null }
    }
    'Get-Partition' = {
        New-Thing 'MSFT_Partition' @{ DiskNumber = [uint32]0; PartitionNumber = [uint32]1; Type = 'Reserved'; Size = [uint64]16777216; DriveLetter = [char]0; AccessPaths = @('\\?\Volume{1}\') }
        New-Thing 'MSFT_Partition' @{ DiskNumber = [uint32]0; PartitionNumber = [uint32]2; Type = 'Basic'; Size = [uint64]68702699520; DriveLetter = [char]'C'; AccessPaths = @('C:\', '\\?\Volume{2}\', 'D:\mnt\') }
        New-Thing 'MSFT_Partition' @{ DiskNumber = [uint32]0; PartitionNumber = [uint32]4; Type = 'Recovery'; Size = [uint64]1073741824; DriveLetter = $null; AccessPaths = $null }
        New-Thing 'MSFT_Partition' @{ DiskNumber = [uint32]2; PartitionNumber = [uint32]1; Type = 'IFS'; Size = [uint64]8796091973632; DriveLetter = [char]'D'; AccessPaths = @('D:\') }
        New-Thing 'MSFT_Partition' @{ DiskNumber = [uint32]3; PartitionNumber = [uint32]1; Type = 'Unknown'; Size = [uint64]1048576; DriveLetter = [char]0; AccessPaths = @() }
        New-Thing 'MSFT_Partition' @{ DiskNumber = [uint32]3; PartitionNumber = [uint32]2; Type = 'Unknown'; Size = [uint64]2199021158400; DriveLetter = [char]0; AccessPaths = @() }
    }
    'Get-Volume' = {
        # The testbed's own volume is a folder of the case, under a drive of PowerShell.
        $null = New-PSDrive -Name Q -PSProvider FileSystem -Root ([System.IO.Path]::Combine($global:StandIn.Folder, 'volume')) -Scope Global -WhatIf:$false
        New-Thing 'MSFT_Volume' @{ DriveLetter = [char]'C'; FileSystemLabel = ''; FileSystem = 'NTFS'; Size = [uint64]68702699520 }
        New-Thing 'MSFT_Volume' @{ DriveLetter = [char]'Q'; FileSystemLabel = 'storlab-12345678'; FileSystem = 'NTFS'; Size = [uint64]8589934592 }
        New-Thing 'MSFT_Volume' @{ DriveLetter = [char]'D'; FileSystemLabel = 'Data of others'; FileSystem = 'ReFS'; Size = [uint64]8796091973632 }
        New-Thing 'MSFT_Volume' @{ DriveLetter = [char]0; FileSystemLabel = 'Recovery'; FileSystem = 'NTFS'; Size = [uint64]1073741824 }
        New-Thing 'MSFT_Volume' @{ DriveLetter = $null; FileSystemLabel = 'storlab-without'; FileSystem = 'NTFS'; Size = [uint64]1 }
    }
    'Get-NetFirewallRule' = {
        New-Thing 'MSFT_NetFirewallRule' @{ DisplayName = 'storlab t1 iSCSI target' }
        New-Thing 'MSFT_NetFirewallRule' @{ DisplayName = 'storlab t2 iSCSI target' }
    }
}
