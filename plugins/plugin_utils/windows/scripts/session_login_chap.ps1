# storlab: session_login_chap
# The cmdlet takes the secret as text only; it leaves the credential for the length of this call.
param([string]$Iqn, [string]$Address, [int]$Port, [pscredential]$Chap)
$secret = $Chap.GetNetworkCredential().Password
$null = Connect-IscsiTarget -NodeAddress $Iqn -TargetPortalAddress $Address -TargetPortalPortNumber $Port -IsPersistent $false -AuthenticationType ONEWAYCHAP -ChapUsername $Chap.UserName -ChapSecret $secret
