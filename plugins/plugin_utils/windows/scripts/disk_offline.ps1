# storlab: disk_offline
param([uint32]$Number)
Set-Disk -Number $Number -IsOffline $true
