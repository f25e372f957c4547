# part: windows_only/registry
# Values of the registry: of an account, by its number (its part is there while it is logged on), and of the host.
function Test-UserHive {
    param([string]$Hive)
    $null -ne [Microsoft.Win32.Registry]::Users.OpenSubKey($Hive)
}
function Test-UserKey {
    param([string]$Hive, [string]$Key)
    $null -ne [Microsoft.Win32.Registry]::Users.OpenSubKey("$Hive\$Key")
}
function Read-UserValue {
    param([string]$Hive, [string]$Key, [string]$Name)
    [Microsoft.Win32.Registry]::GetValue("HKEY_USERS\$Hive\$Key", $Name, $null)
}
function Write-UserValue {
    param([string]$Hive, [string]$Key, [string]$Name, [string]$Value)
    [Microsoft.Win32.Registry]::Users.CreateSubKey("$Hive\$Key").SetValue($Name, $Value)
}
function Remove-UserValue {
    param([string]$Hive, [string]$Key, [string]$Name)
    [Microsoft.Win32.Registry]::Users.OpenSubKey("$Hive\$Key", $true).DeleteValue($Name, $false)
}
function Remove-UserKey {
    param([string]$Hive, [string]$Key)
    [Microsoft.Win32.Registry]::Users.DeleteSubKeyTree("$Hive\$Key", $false)
}
function Read-HostValue {
    param([string]$Key, [string]$Name)
    [Microsoft.Win32.Registry]::GetValue("HKEY_LOCAL_MACHINE\$Key", $Name, $null)
}
