# storlab: target_chap_off
param([string]$Name)
Set-IscsiServerTarget -ComputerName localhost -TargetName $Name -EnableChap $false
