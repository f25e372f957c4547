# storlab: target_reverse_chap_off
param([string]$Name)
Set-IscsiServerTarget -ComputerName localhost -TargetName $Name -EnableReverseChap $false
