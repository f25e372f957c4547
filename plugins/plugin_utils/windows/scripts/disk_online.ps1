# storlab: disk_online
param([uint32]$Number)
Set-Disk -Number $Number -IsOffline $false
