# storlab: target_new
param([string]$Name, [string[]]$Initiators)
$null = New-IscsiServerTarget -ComputerName localhost -TargetName $Name -InitiatorIds $Initiators
