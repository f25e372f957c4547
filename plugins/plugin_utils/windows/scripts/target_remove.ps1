# storlab: target_remove
param([string]$Name)
Remove-IscsiServerTarget -ComputerName localhost -TargetName $Name
