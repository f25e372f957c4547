# storlab: own_new
# parts: windows_only/edition, windows_only/folder_rights
# A folder of the testbed in a folder of others, and its stamp. Only administrators may put something into it, so nothing in it leads elsewhere.
param([string]$Own, [string]$Stamp, [string]$Content)
Assert-WindowsPowerShell
New-OwnedFolder -Path $Own
$rights = Read-FolderRights -Path $Own
if ($rights.leads_elsewhere -or -not $rights.protected -or $rights.owner -ne 'S-1-5-32-544') { throw "The folder $Own was made by somebody else." }
# Fails where the stamp is there already.
$stream = [System.IO.File]::Open([System.IO.Path]::Combine($Own, $Stamp), [System.IO.FileMode]::CreateNew, [System.IO.FileAccess]::Write)
try {
    $bytes = [System.Text.Encoding]::UTF8.GetBytes($Content)
    $stream.Write($bytes, 0, $bytes.Length)
    $stream.Flush($true)
}
finally {
    $stream.Dispose()
}
