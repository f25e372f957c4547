# storlab: vdisk_remove
param([string]$Path)
Remove-IscsiVirtualDisk -ComputerName localhost -Path $Path
