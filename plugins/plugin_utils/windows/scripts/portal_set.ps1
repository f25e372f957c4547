# storlab: portal_set
param([string]$Address, [int]$Port, [bool]$Enable)
Set-IscsiTargetServerSetting -ComputerName localhost -IP $Address -Port $Port -Enable $Enable
