# storlab: target_reverse_chap
param([string]$Name, [pscredential]$Chap)
Set-IscsiServerTarget -ComputerName localhost -TargetName $Name -EnableReverseChap $true -ReverseChap $Chap
