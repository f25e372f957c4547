# storlab: lun_map
param([string]$Name, [string]$Path, [int]$Lun)
Add-IscsiVirtualDiskTargetMapping -ComputerName localhost -TargetName $Name -Path $Path -Lun $Lun
