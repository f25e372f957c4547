# storlab: session_login
param([string]$Iqn, [string]$Address, [int]$Port)
$null = Connect-IscsiTarget -NodeAddress $Iqn -TargetPortalAddress $Address -TargetPortalPortNumber $Port -IsPersistent $false
