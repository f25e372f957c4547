# storlab: service_stop
param([string]$Name)
Stop-Service -Name $Name -Force
