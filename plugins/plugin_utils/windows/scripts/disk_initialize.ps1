# storlab: disk_initialize
param([uint32]$Number, [string]$Style)
Initialize-Disk -Number $Number -PartitionStyle $Style -Confirm:$false
