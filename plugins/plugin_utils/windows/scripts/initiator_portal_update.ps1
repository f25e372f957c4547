# storlab: initiator_portal_update
param([string]$Address)
Update-IscsiTargetPortal -TargetPortalAddress $Address
