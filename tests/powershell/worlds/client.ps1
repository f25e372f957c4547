# A client: no server roles, the service of the initiator stopped, that of the firewall, too; one disk, no volume of a testbed.
$global:StandIn.Answers = @{
    'Get-CimInstance' = {
        param($Bound)
        switch ("$($Bound.Namespace)|$($Bound.ClassName)|$($Bound.Filter)") {
            '|Win32_OperatingSystem|' {
                New-Thing 'Win32_OperatingSystem' @{ ProductType = [uint32]1; Caption = 'Windows 11 Pro'; Version = '10.0.26100'; LastBootUpTime = New-Object -TypeName DateTime -ArgumentList 2025, 1, 31, 23, 59, 58, ([System.DateTimeKind]::Utc) }
            }
            "|Win32_Service|Name='WinTarget' OR Name='MSiSCSI'" { New-Thing 'Win32_Service' @{ Name = 'MSiSCSI'; State = 'Stopped'; StartMode = 'Disabled' } }
            "|Win32_Service|Name='mpssvc' AND State='Running'" { }
            '|Win32_PageFileUsage|' { }
            '|Win32_DiskDrive|' { New-Thing 'Win32_DiskDrive' @{ Index = [uint32]0; SCSILogicalUnit = [uint16]0 } }
            default { throw "Nobody should ask for $_." }
        }
    }
    'Get-Disk' = { New-Thing 'MSFT_Disk' @{ Number = [uint32]0; FriendlyName = 'NVMe disk'; SerialNumber = '0025_3888'; UniqueId = 'eui.0025'; Size = [uint64]512110190592; LogicalSectorSize = [uint32]512; BusType = 'NVMe'; PartitionStyle = 'GPT'; IsOffline = $false; IsReadOnly = $false; IsBoot = $true; IsSystem = $true; IsClustered = $false; OfflineReason = $null } }
    'Get-Partition' = { New-Thing 'MSFT_Partition' @{ DiskNumber = [uint32]0; PartitionNumber = [uint32]3; Type = 'Basic'; Size = [uint64]511000000000; DriveLetter = [char]'C'; AccessPaths = @('C:\') } }
    'Get-Volume' = { New-Thing 'MSFT_Volume' @{ DriveLetter = [char]'C'; FileSystemLabel = 'Windows'; FileSystem = 'NTFS'; Size = [uint64]511000000000 } }
    '*' = { param($Bound, $Name) if ('Assert-WindowsPowerShell', 'Read-HostValue' -notcontains $Name) { throw "Nobody should ask $Name of this host." } }
}
