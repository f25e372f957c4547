# storlab: target_enable
param([string]$Name)
Set-IscsiServerTarget -ComputerName localhost -TargetName $Name -Enable $true
