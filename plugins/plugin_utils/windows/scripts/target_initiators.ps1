# storlab: target_initiators
param([string]$Name, [string[]]$Initiators)
Set-IscsiServerTarget -ComputerName localhost -TargetName $Name -InitiatorIds $Initiators
