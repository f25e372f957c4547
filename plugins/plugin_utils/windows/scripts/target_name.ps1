# storlab: target_name
param([string]$Name, [string]$Iqn, [string]$Description)
Set-IscsiServerTarget -ComputerName localhost -TargetName $Name -TargetIqn $Iqn -Description $Description
