# storlab: session_logout
param([string]$Id)
Disconnect-IscsiTarget -SessionIdentifier $Id -Confirm:$false
