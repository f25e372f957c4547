# storlab: vdisk_new_fixed
param([string]$Path, [uint64]$SizeBytes, [string]$Description)
$null = New-IscsiVirtualDisk -ComputerName localhost -Path $Path -SizeBytes $SizeBytes -UseFixed -LogicalSectorSizeBytes 512 -Description $Description
