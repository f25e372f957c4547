# storlab: initiator_portal_new
param([string]$Address, [int]$Port)
$null = New-IscsiTargetPortal -TargetPortalAddress $Address -TargetPortalPortNumber $Port
