# storlab: disk_writable
param([uint32]$Number)
Set-Disk -Number $Number -IsReadOnly $false
