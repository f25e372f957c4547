# storlab: lun_unmap
param([string]$Name, [string]$Path)
Remove-IscsiVirtualDiskTargetMapping -ComputerName localhost -TargetName $Name -Path $Path
