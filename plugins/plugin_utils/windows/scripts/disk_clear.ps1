# storlab: disk_clear
param([uint32]$Number)
Clear-Disk -Number $Number -RemoveData -Confirm:$false
