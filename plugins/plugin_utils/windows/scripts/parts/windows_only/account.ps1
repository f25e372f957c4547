# part: windows_only/account
# The account that runs this: its name, and its number (SID), which names its part of the registry.
function Get-AccountName { [System.Security.Principal.WindowsIdentity]::GetCurrent().Name }
function Get-AccountNumber { [System.Security.Principal.WindowsIdentity]::GetCurrent().User.Value }
