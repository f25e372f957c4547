# storlab: session_logout
# Without a target the cmdlet would ask each that is known to end this session.
param([string]$Iqn, [string]$Id)
Disconnect-IscsiTarget -NodeAddress $Iqn -SessionIdentifier $Id -Confirm:$false
