# storlab: disk_read_only
param([uint32]$Number)
Set-Disk -Number $Number -IsReadOnly $true
