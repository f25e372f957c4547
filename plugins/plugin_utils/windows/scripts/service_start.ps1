# storlab: service_start
param([string]$Name)
Start-Service -Name $Name
