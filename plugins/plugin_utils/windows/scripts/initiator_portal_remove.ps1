# storlab: initiator_portal_remove
param([string]$Address, [int]$Port)
Remove-IscsiTargetPortal -TargetPortalAddress $Address -TargetPortalPortNumber $Port -Confirm:$false
