# Every cmdlet refuses with an error that ends the script.
$global:StandIn.Answers['*'] = { param($Bound, $Name) Deny-Call -Message "$Name is denied." -Terminating }
