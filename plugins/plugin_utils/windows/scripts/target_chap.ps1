# storlab: target_chap
param([string]$Name, [pscredential]$Chap)
Set-IscsiServerTarget -ComputerName localhost -TargetName $Name -EnableChap $true -Chap $Chap
