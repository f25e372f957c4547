# storlab: vdisk_new
param([string]$Path, [uint64]$SizeBytes, [string]$Description)
$null = New-IscsiVirtualDisk -ComputerName localhost -Path $Path -SizeBytes $SizeBytes -LogicalSectorSizeBytes 512 -Description $Description
